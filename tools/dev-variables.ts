/** The variables of `npm run dev`. */
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

/** The Worker's variables for development. @throws Error if a file cannot be read. */
export function readVariables({ shell, wranglerToml = WRANGLER_TOML }: VariablesOptions): Record<string, unknown> {
  return { ...readSettings({ cwd: process.cwd(), config: wranglerToml, shell, view: 'development' }).variables }
}
