/** What a faulty REST front does to a request instead of serving it. */
export type Fault =
  /** The command runs and its answer comes later, each by a different time. */
  | { readonly kind: 'latency'; readonly minMs: number; readonly maxMs: number }
  /** The command runs, and its answer comes when this resolves. */
  | { readonly kind: 'held'; readonly until: Promise<void> }
  /** The command runs later, each by a different time: later ones overtake it. */
  | { readonly kind: 'delay'; readonly minMs: number; readonly maxMs: number }
  /** No answer ever comes. `runs`: the command runs nevertheless. */
  | { readonly kind: 'hang'; readonly runs: boolean }
  /** The command is not run; the error repeats the command and the token, as some servers and clients do. */
  | { readonly kind: 'error'; readonly status: number }
  /** The command is not run; this is the answer. */
  | { readonly kind: 'body'; readonly status: number; readonly type: string; readonly text: string }
  /** The command runs, and the text of its answer is changed. */
  | { readonly kind: 'rewrite'; readonly rewrite: (text: string) => string }
  /** Scripts seem to be loaded nowhere. `everyScript`: not even one that was sent as text is run. */
  | { readonly kind: 'noscript'; readonly everyScript: boolean }
  /** The command runs, and the connection is reset in the middle of its answer. */
  | { readonly kind: 'reset' }

const HTML = '<!doctype html><title>Sign in</title><p>Please accept the terms of this network.</p>'

/** Changes the integers of a decision, and leaves other answers alone. */
function changeNumbers(change: (numbers: number[]) => unknown): Fault {
  return {
    kind: 'rewrite',
    rewrite(text) {
      const { result } = JSON.parse(text) as { result?: unknown }
      return Array.isArray(result) ? JSON.stringify({ result: change(result) }) : text
    },
  }
}

/** Every fault by a name that a table can show. */
export const FAULTS = {
  'latency with jitter': { kind: 'latency', minMs: 20, maxMs: 200 },
  'latency around the deadline': { kind: 'latency', minMs: 200, maxMs: 900 },
  'commands late and out of order': { kind: 'delay', minMs: 0, maxMs: 1_500 },
  'hang, command not run': { kind: 'hang', runs: false },
  'hang, command run': { kind: 'hang', runs: true },
  'status 400': { kind: 'error', status: 400 },
  'status 401': { kind: 'error', status: 401 },
  'status 429': { kind: 'error', status: 429 },
  'status 500': { kind: 'error', status: 500 },
  'status 503': { kind: 'error', status: 503 },
  'empty body': { kind: 'body', status: 200, type: 'application/json', text: '' },
  'HTML body': { kind: 'body', status: 200, type: 'text/html', text: HTML },
  'HTML body, status 502': { kind: 'body', status: 502, type: 'text/html', text: HTML },
  'no result': { kind: 'body', status: 200, type: 'application/json', text: '{"result":null}' },
  'truncated JSON': { kind: 'rewrite', rewrite: (text) => text.slice(0, text.length / 2) },
  'object in place of an array': changeNumbers((numbers) => ({ ...numbers })),
  'too few integers': changeNumbers((numbers) => numbers.slice(0, -1)),
  'too many integers': changeNumbers((numbers) => [...numbers, 0]),
  'strings for integers': changeNumbers((numbers) => numbers.map(String)),
  'floats for integers': changeNumbers((numbers) => numbers.map((number) => number + 0.5)),
  'negative numbers': changeNumbers((numbers) => numbers.map((number) => -1 - number)),
  'negative usage': changeNumbers(([granted, nowMs, ...usage]) => [
    granted,
    nowMs,
    ...usage.map((number) => -1 - number),
  ]),
  'refusal without a reason': changeNumbers(([, nowMs, ...usage]) => [0, nowMs, ...usage.map(() => 0)]),
  'base64 not asked for': changeNumbers((numbers) =>
    numbers.map((number) => Buffer.from(`${number}`).toString('base64')),
  ),
  'NOSCRIPT each time': { kind: 'noscript', everyScript: false },
  'NOSCRIPT to EVAL too': { kind: 'noscript', everyScript: true },
  'reset mid-body': { kind: 'reset' },
} as const satisfies Record<string, Fault>

export type FaultName = keyof typeof FAULTS
