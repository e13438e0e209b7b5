import type { Path } from '../settings/wrangler-file.ts'
import type { Rule } from './rules.ts'

/** `error`: the Worker would refuse to start, or does not get what the file holds. `warning`: surely a mistake. `note`: worth knowing. */
export type Level = 'error' | 'warning' | 'note'

/** Something that `sluice check` has to say. */
export interface Finding {
  readonly rule: Rule
  readonly message: string
  /** What to do. */
  readonly hint?: string
  /** The variable that it is about, and what below it. */
  readonly variable?: string
  readonly path?: Path
  /** Whether it is about the name at the end of the path, and not about its value. */
  readonly isName?: boolean
  /** Path in Wrangler's file, for anything but a variable. */
  readonly filePath?: Path
  /** Offset in the text of the variable. */
  readonly offset?: number
}
