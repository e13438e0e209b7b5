import { check } from './check.ts'
import { completion } from './completion.ts'
import { reset, usage } from './counts.ts'
import { expire } from './expire.ts'
import { forget } from './forget.ts'
import { policies } from './policies.ts'
import { allow, block, override } from './rules.ts'
import { simulate } from './simulate.ts'
import type { Subcommand } from './subcommand.ts'
import { top } from './top.ts'

/** In the order of `--help`. */
export const SUBCOMMANDS: readonly Subcommand[] = [
  check,
  simulate,
  usage,
  reset,
  block,
  allow,
  override,
  policies,
  top,
  expire,
  forget,
  completion,
]
