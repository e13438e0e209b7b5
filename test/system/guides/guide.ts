/** The guides in docs/guides, as somebody follows them: their files, and the command that shows the limit. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

export interface Guide {
  /** A new folder with the files that the page shows. */
  readonly folder: string
  /** The command that installs, its packages without the package itself. */
  readonly packages: readonly string[]
  /** Lines of `export`, if the page has any. */
  readonly exported: string
  /** What the page says that its last command prints. */
  readonly expected: string
  /** Runs the last command, at another port than the page has. @returns what it prints */
  tryIt(port: number): Promise<string>
}

export async function readGuide(name: string): Promise<Guide> {
  const page = await readFile(join(import.meta.dirname, `../../../docs/guides/${name}.md`), 'utf8')
  const find = (pattern: RegExp) => pattern.exec(page)?.[1] ?? ''
  const folder = await mkdtemp(join(tmpdir(), 'sluice-guide-'))
  for (const [, file = '', text = ''] of page.matchAll(/^In `([\w./-]+)`(?:,[^\n]*)?:\n\n```\w+\n(.*?)```/gms)) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), text)
  }
  const command = find(/^(for i in .*)$/m)
  return {
    folder,
    packages: find(/^npm install \S+ ([^#\n]*)/m)
      .split(' ')
      .filter(Boolean),
    exported: find(/^((?:export .*\n)+)/m),
    expected: find(/```text\n(.*)\n```/),
    async tryIt(port) {
      const [, written = ''] = /127\.0\.0\.1:(\d+)/.exec(command) ?? []
      const { stdout } = await promisify(execFile)('bash', ['-c', command.replace(`:${written}`, `:${port}`)])
      return stdout.trim()
    },
  }
}
