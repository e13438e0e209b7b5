import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { inspect } from '../../src/command/check/inspect.ts'
import { readSettings } from '../../src/command/settings/settings.ts'

/** What `sluice check` says of a file, a line for each finding. */
export async function findFindings(path: string): Promise<readonly string[]> {
  const env = /^(?:#|\/\/)env (\w+)$/m.exec(await readFile(path, 'utf8'))?.[1]
  const settings = readSettings({ cwd: dirname(path), config: basename(path), env, shell: {}, view: 'deployed' })
  return inspect(settings, 'deployed').findings.map(({ at, level, code, message }) => {
    const place = typeof at === 'object' ? `${at.line}:${at.column}` : `${at}`
    return `${place} ${level} [${code}] ${message}`
  })
}
