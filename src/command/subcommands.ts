import { check } from './check.ts'
import { completion } from './completion.ts'
import { expire } from './expire.ts'
import { forget } from './forget.ts'
import type { Subcommand } from './subcommand.ts'

/** In the order of `--help`. */
export const SUBCOMMANDS: readonly Subcommand[] = [check, expire, forget, completion]
