/** What the API answers. */
import type { InferOutput } from 'valibot'
import type * as answers from '../src/gateway/admin/answers.ts'
import type { Allow, Block, Override } from '../src/gateway/rules/document.ts'
import type { Statistics } from '../src/gateway/statistics/read-statistics.ts'

export type Status = InferOutput<typeof answers.status>
export type CallerUsage = InferOutput<typeof answers.usage>
export type CallerHistory = InferOutput<typeof answers.history>
export type ResetResult = InferOutput<typeof answers.reset>
export type Counted = Statistics
export type Numbers = Counted['total']
export type Policies = InferOutput<typeof answers.policies>
export type ActivePolicy = Policies['policies'][number]
export type ActiveLimit = ActivePolicy['limits'][number]
export type Validity = InferOutput<typeof answers.validate>
export type Differences = InferOutput<typeof answers.diff>
export type Edited = InferOutput<typeof answers.edited>
export type Ordered = InferOutput<typeof answers.ordered>
export type RulesNow = InferOutput<typeof answers.rules>
export type Revision = InferOutput<typeof answers.versions>['versions'][number]

/** An entry, whichever list it stands in. */
export type Entry = Allow & Partial<Block & Override>
