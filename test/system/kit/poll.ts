import { setTimeout as wait } from 'node:timers/promises'

/** Reads time and again until it is as meant, or the time is up. @returns what was read last */
export async function pollUntil<Value>(
  { withinMs, everyMs }: { readonly withinMs: number; readonly everyMs: number },
  read: () => Value | Promise<Value>,
  isMeant: (value: Value) => boolean = Boolean,
): Promise<Value> {
  for (const untilMs = performance.now() + withinMs; ; await wait(everyMs)) {
    const value = await read()
    if (isMeant(value) || performance.now() > untilMs) return value
  }
}
