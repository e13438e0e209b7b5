import { statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { CommandError } from '../command-error.ts'
import type { Report } from './drawing/html.ts'

/** @throws {CommandError} for a file that cannot be drawn, or has no folder */
export function checkOutFile(file: string, cwd: string): void {
  if (!/\.(?:svg|html)$/.test(file)) {
    throw new CommandError(`--out: expected a name that ends in .svg or .html, got ${JSON.stringify(file)}`)
  }
  const folder = dirname(resolve(cwd, file))
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError(`--out: there is no folder ${folder}`)
  }
}

/** Draws a report, over what the file held before. @throws {CommandError} */
export async function writeOutFile(file: string, cwd: string, report: Report): Promise<void> {
  // Loaded by those who draw only.
  const text = file.endsWith('.svg')
    ? (await import('./drawing/svg.ts')).svgOf(report)
    : (await import('./drawing/html.ts')).htmlOf(report)
  await writeFile(resolve(cwd, file), text).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--out: ${file} cannot be written: ${error.code ?? error.name}`)
  })
}
