/** Of all drawings, in pixels. */
export const WIDTH = 760

/** Told apart by those who are colour-blind; at least 4.5 to 1 against what is behind them. */
export const STYLE = `
:root { color-scheme: light dark; }
.page { --back: #ffffff; --text: #1c2024; --line: #d5d9de; --admitted: #2f6db5; --refused: #b84a00; }
@media (prefers-color-scheme: dark) {
  .page { --back: #14171a; --text: #e6e8ea; --line: #3a4046; --admitted: #7fb0ee; --refused: #ff9c55; }
}
.page { background: var(--back); color: var(--text); font-family: system-ui, sans-serif; }
.plot { display: block; max-width: 100%; height: auto; color: var(--text); }
.admitted { fill: var(--admitted); }
.refused { fill: var(--refused); }
`

/** What the classes of the style stand for. */
export const COLOURS = { admitted: '--admitted', refused: '--refused' } as const

export function escaped(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cs}]/gu, '\ufffd')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;')
}
