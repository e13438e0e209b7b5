import { CommandError } from '../command-error.ts'
import type { Context } from '../subcommand.ts'
import type { Database } from './database.ts'
import type { Job } from './jobs.ts'
import { estimate, number, toCommandError } from './run-sweep.ts'
import { sweep } from './sweep.ts'

/** Keys that are looked at before the question. */
const SAMPLE_KEYS = 1_000

/** @param would what the command would do @throws {CommandError} for a pattern that holds nothing that a name must hold */
export function refuseEverything(match: string, would: string): void {
  if (match.replace(/\[(?:\\.|[^\]])*\]?|[*?]/g, '') !== '') return
  throw new CommandError(`--match ${JSON.stringify(match)} names no part of a key`, {
    hint: `It would ${would}. --yes says that this is meant.`,
  })
}

export interface Question {
  readonly database: Database
  readonly match: string
  /** Counts the keys that would be changed. */
  readonly job: Job
  /** @param keys how many, e.g. "about 1,000 keys" */
  ask(keys: string): string
}

/** Asks the operator, with the number of keys and some of them. @throws {CommandError} if there is nobody to ask */
export async function isMeant({ terminal, signal }: Context, question: Question): Promise<boolean> {
  const { database, match, job, ask } = question
  const sample = await sweep({ database, job, match, signal, sampleKeys: SAMPLE_KEYS }).catch((error: unknown) => {
    throw toCommandError(error)
  })
  const { tally, isComplete, examples } = sample
  const amount = isComplete ? number(tally.changed) : `about ${number(estimate(tally.changed, sample))}`
  const such = examples.length > 0 ? `, such as ${examples.map((each) => JSON.stringify(each)).join(', ')}` : ''
  const answer = await terminal.confirm(`${ask(`${amount} keys`)}${such}?`, signal)
  if (answer === undefined) {
    throw new CommandError('there is nobody to ask whether this is meant', {
      hint: 'Give --yes, or see with --dry-run.',
    })
  }
  if (!answer) terminal.note('nothing was changed')
  return answer
}
