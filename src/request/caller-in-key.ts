/** The caller in the key of a rule: its digest, as logs name it. */
export function callerIn(key: string): string {
  return key.slice(key.lastIndexOf('{') + 1, -1)
}
