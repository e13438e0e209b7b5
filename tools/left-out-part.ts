/** Stands in for a part that a Worker was built without. */
import { env } from 'cloudflare:workers'
import { HIDDEN, OptionError } from '../src/core/options/option-error.ts'

/**
 * Stands for the import of a part that was left out of a Worker.
 * @param variables that ask for it, the one that only does with some values last
 * @throws {OptionError} naming the one that does
 */
export function refuseLeftOut(...variables: readonly string[]): never {
  const set: Readonly<Record<string, unknown>> = { ...env }
  const isSet = (name: string) => ![undefined, '', 'off'].includes(set[name] as string | undefined)
  const name = variables.find(isSet) ?? `${variables.at(-1)}`
  const remedy = `name ${name} in [vars] or in required of [secrets], and deploy again`
  throw new OptionError(name, `nothing, since this Worker was built without it (${remedy})`, HIDDEN)
}
