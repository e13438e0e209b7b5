import { allow } from './allow.ts'
import { block } from './block.ts'
import { check } from './check.ts'
import { completion } from './completion.ts'
import { expire } from './expire.ts'
import { forget } from './forget.ts'
import { override } from './override.ts'
import { policies } from './policies.ts'
import { reset } from './reset.ts'
import { simulate } from './simulate.ts'
import type { Subcommand } from './subcommand.ts'
import { top } from './top.ts'
import { usage } from './usage.ts'

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
