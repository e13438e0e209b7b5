/**
 * A parameter that is there once. APIs differ about which of several counts, and a caller must not be able to add one
 * that counts here alone.
 * @returns undefined if it is missing, empty or repeated
 */
export function onlyValue(parameters: URLSearchParams, name: string): string | undefined {
  const [value, ...others] = parameters.getAll(name)
  return others.length === 0 ? value || undefined : undefined
}
