import type { ComponentChildren } from 'preact'

/** What may be wider than a phone, and is then scrolled, by keyboard too. */
export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <section class="scroll" aria-label={label} tabIndex={0}>
      {children}
    </section>
  )
}
