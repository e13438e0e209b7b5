import { check } from './check.ts'
import { completion } from './completion.ts'
import { expire } from './expire.ts'
import { forget } from './forget.ts'
import { reset } from './reset.ts'
import { simulate } from './simulate.ts'
import type { Subcommand } from './subcommand.ts'
import { top } from './top.ts'
import { usage } from './usage.ts'

/** In the order of `--help`. */
export const SUBCOMMANDS: readonly Subcommand[] = [check, simulate, usage, reset, top, expire, forget, completion]
