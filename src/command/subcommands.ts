import { check } from './check.ts'
import { completion } from './completion.ts'
import type { Subcommand } from './subcommand.ts'

/** In the order of `--help`. */
export const SUBCOMMANDS: readonly Subcommand[] = [check, completion]
