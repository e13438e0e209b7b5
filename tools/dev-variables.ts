import { join } from 'node:path'
import { readSettings } from '../src/command/settings/settings.ts'

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
 * @throws Error if a file cannot be read.
 */
export function readVariables({ shell, wranglerToml = WRANGLER_TOML }: VariablesOptions): Record<string, unknown> {
  const { variables, sources } = readSettings({ cwd: '/', config: wranglerToml, shell, view: 'development' })
  const { UPSTREAM_URL, ...others } = variables
  return sources.get('UPSTREAM_URL') === 'wrangler' || UPSTREAM_URL === undefined ? others : { ...others, UPSTREAM_URL }
}
