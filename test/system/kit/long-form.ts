/** The long form of a part: a command that prints what it finds, and fails if something is wrong. */
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { readSeed } from '../../../tools/seeded-random.ts'

export interface LongForm<Options extends ParseArgsConfig['options']> {
  readonly options: Options
  /** Variable of the environment whose seed replays a run. */
  readonly seedVariable?: string
  /** Whether arguments that are no options are taken, too. */
  readonly allowPositionals?: boolean
}

type Parsed<Options extends ParseArgsConfig['options']> = ReturnType<
  typeof parseArgs<{ readonly options: Options; readonly allowPositionals: boolean }>
>

/** @param work returns what is wrong, a line each */
export async function runLongForm<const Options extends NonNullable<ParseArgsConfig['options']>>(
  { options, seedVariable, allowPositionals = false }: LongForm<Options>,
  work: (given: Parsed<Options> & { readonly seed: number }) => Promise<readonly string[]>,
): Promise<void> {
  const parsed = parseArgs({ options, allowPositionals })
  const seed = seedVariable === undefined ? 0 : readSeed(seedVariable)
  if (seedVariable !== undefined) console.log(`${seedVariable}=${seed}`)
  const wrong = await work({ ...parsed, seed })
  for (const line of wrong) console.error(line)
  if (wrong.length > 0) process.exitCode = 1
}
