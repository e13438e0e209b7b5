import './wrangler-switches.ts'
import { join } from 'node:path'
import { unstable_getVarsForDev as getVarsForDev, unstable_readConfig as readConfig } from 'wrangler'
import { meantVariable } from '../src/config/misspelt.ts'
import { SECRETS, VARIABLES } from '../src/config/variables.ts'

export interface VariablesOptions {
  /**
   * Environment of the shell. Only the variables that Sluice reads count, and names that look like misspellings of
   * them.
   */
  shell: Readonly<Record<string, string | undefined>>
  /** Path of wrangler.toml; `.dev.vars` is read from the same directory. */
  wranglerToml?: string
}

export const WRANGLER_TOML = join(import.meta.dirname, '..', 'wrangler.toml')

/**
 * The Worker's variables for development: those of the shell win over `.dev.vars`, which wins over wrangler.toml. An
 * empty secret counts as not set: a copy of .dev.vars.example names them all. The UPSTREAM_URL of wrangler.toml is
 * ignored here: requests of a development server do not belong there.
 * @throws Error if a file is not what wrangler takes.
 */
export function readVariables({ shell, wranglerToml = WRANGLER_TOML }: VariablesOptions): Record<string, unknown> {
  const { vars, configPath } = readConfig({ config: wranglerToml })
  const { UPSTREAM_URL: _, ...varsOfToml } = vars
  const isSilent = true
  const bindings = getVarsForDev(configPath, undefined, varsOfToml, undefined, isSilent)

  const variables: Record<string, unknown> = {}
  for (const [name, binding] of Object.entries(bindings)) {
    if ('value' in binding) variables[name] = binding.value
  }
  for (const [name, value] of Object.entries(shell)) {
    const isKnown = (VARIABLES as readonly string[]).includes(name)
    if (value !== undefined && (isKnown || meantVariable(name))) variables[name] = value
  }
  for (const name of SECRETS) {
    if (variables[name] === '') delete variables[name]
  }
  return variables
}
