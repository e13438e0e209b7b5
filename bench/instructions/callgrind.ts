/** Programs whose instructions valgrind counts. */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findExecutable, readPath } from '../../tools/programs.ts'

const run = promisify(execFile)

/** A program that valgrind counts the instructions of. */
export interface Counted extends AsyncDisposable {
  /** Starts the program with its arguments, in place of its own file. */
  readonly file: string
  /**
   * Instructions that the program spends on some work, whatever else the machine does.
   * @param pid of the program
   * @param poke has the program do something small: it looks for orders when it does something next
   */
  count(pid: number, poke: () => Promise<unknown>, work: () => Promise<void>): Promise<number>
  /** Instructions since the program has started, or since the last call; those of `poke` count next time. */
  countSoFar(pid: number, poke: () => Promise<unknown>): Promise<number>
}

/** Readies a program to be counted. */
export type UnderCallgrind = (executable: string) => Promise<Counted>

/** Ends this process where valgrind is not installed. */
export async function requireCallgrind(): Promise<UnderCallgrind> {
  const valgrind = await findExecutable('valgrind', readPath())
  if (valgrind !== undefined) return (executable) => wrapProgram(valgrind, executable)
  console.error('valgrind is not installed: apt-get install valgrind')
  process.exit(1)
}

async function wrapProgram(valgrind: string, executable: string): Promise<Counted> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-instructions-'))
  const file = join(folder, 'counted')
  // Code that V8 makes while it runs may be replaced: valgrind must look whether it is still the same.
  const options = `--tool=callgrind --smc-check=all-non-file '--callgrind-out-file=${folder}/counts'`
  await writeFile(file, `#!/bin/sh\nexec '${valgrind}' ${options} '${executable}' "$@"\n`, { mode: 0o755 })
  const order = async (what: string, pid: number, poke: () => Promise<unknown>) => {
    await run('callgrind_control', [what, `${pid}`])
    await poke()
  }
  const countSoFar: Counted['countSoFar'] = async (pid, poke) => {
    await order('--dump', pid, poke)
    return readLastTotal(folder)
  }
  return {
    file,
    async count(pid, poke, work) {
      await order('--zero', pid, poke)
      await work()
      return countSoFar(pid, poke)
    },
    countSoFar,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  }
}

async function readLastTotal(folder: string): Promise<number> {
  const dumps = (await readdir(folder)).filter((name) => name.startsWith('counts.'))
  const newest = Math.max(...dumps.map((name) => Number(name.split('.')[1])))
  const text = await readFile(join(folder, `counts.${newest}`), 'utf8')
  const [, total] = /^(?:totals|summary): (\d+)/m.exec(text) ?? []
  if (total === undefined) throw new Error('valgrind counted nothing')
  return Number(total)
}
