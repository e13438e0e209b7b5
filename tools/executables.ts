/** Programs that are installed, under whichever name. */
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

/** A minimal PATH often lacks the directories where package managers live and where they put Redis. */
const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin', '/opt/homebrew/bin']

/** PATH, and where packages put what they install. */
export const defaultPath = () => [process.env.PATH, ...SYSTEM_PATH].join(delimiter)

export async function findExecutable(name: string, path: string): Promise<string | undefined> {
  for (const directory of path.split(delimiter)) {
    if (directory === '') continue
    const file = join(directory, name)
    const isExecutable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isExecutable) return file
  }
  return undefined
}

/** What a program that failed said last. */
export function lastLine(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message: string }
  return (stderr || message).trim().split('\n').at(-1) ?? ''
}
