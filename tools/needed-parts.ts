/** Which parts of the gateway a configuration loads. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { readSettings } from '../src/command/settings/settings.ts'
import { createStandIn, readBindings, readRequiredSecrets } from '../src/command/worker-config.ts'
import { SECRETS, VARIABLES } from '../src/http/config/variables.ts'

/** What a Worker is given. */
interface Deployed {
  readonly variables: Readonly<Record<string, unknown>>
  /** Names of those that the gateway uses. */
  readonly bindings: readonly string[]
}

/**
 * Which parts of the gateway a deployed configuration loads.
 * @param args `--config <file>` and `--env <name>`, as for Wrangler
 * @returns paths below src/; undefined if Wrangler's file does not tell all that the Worker will be given
 * @throws Error that says what the gateway would refuse
 */
export async function findNeededParts(args: readonly string[]): Promise<ReadonlySet<string> | undefined> {
  const { values } = parseArgs({ args: [...args], options: { env: { type: 'string' }, config: { type: 'string' } } })
  const settings = readSettings({ ...values, cwd: process.cwd(), shell: {}, view: 'deployed' })
  const { file, sources } = settings
  const required = readRequiredSecrets(settings)
  // Variables may have been set elsewhere, or have values that are unknown here.
  if (!required || file?.get('keep_vars') === true) return undefined
  if (required.some((name) => (VARIABLES as readonly unknown[]).includes(name) && !SECRETS.has(name))) return undefined
  const variables = Object.entries(settings.variables).filter(([name]) => sources.get(name) === 'wrangler')
  const secrets = required.map((name) => [name, createStandIn(name)])
  const bindings = Object.keys(readBindings(settings))
  return recordParts({ variables: Object.fromEntries([...variables, ...secrets]), bindings })
}

/**
 * Composes the gateway once, in a process of its own.
 * @returns paths below src/ of what was imported
 * @throws Error that says what the gateway would refuse
 */
export async function recordParts(deployed: Deployed): Promise<ReadonlySet<string>> {
  const recording = [join(import.meta.dirname, 'record-parts.ts'), JSON.stringify(deployed)]
  const { stdout } = await promisify(execFile)(process.execPath, recording).catch(({ stderr }) => {
    throw new Error(stderr.trim())
  })
  return new Set(JSON.parse(stdout))
}
