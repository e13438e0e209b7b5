import { check } from './check.ts'
import { completion } from './completion.ts'
import { reset } from './reset.ts'
import type { Subcommand } from './subcommand.ts'

/** In the order of `--help`. */
export const SUBCOMMANDS: readonly Subcommand[] = [check, usage, reset, completion]

import { usage } from './usage.ts'
