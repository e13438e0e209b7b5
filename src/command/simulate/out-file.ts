import { lstatSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { CommandError } from '../command-error.ts'
import type { Report } from './drawing/html.ts'

/** @throws {CommandError} for a file that cannot be drawn, has no folder, or is there already */
export function checkOutFile(file: string, cwd: string, isForced: boolean): void {
  if (!/\.(?:svg|html)$/.test(file)) {
    throw new CommandError(`--out: expected a name that ends in .svg or .html, got ${JSON.stringify(file)}`)
  }
  const folder = dirname(resolve(cwd, file))
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError(`--out: there is no folder ${folder}`)
  }
  if (!isForced && lstatSync(resolve(cwd, file), { throwIfNoEntry: false })) throw alreadyThere(file)
}

/**
 * Draws a report into a new file.
 * @param isForced another one of this name makes room, or a link, but not what that points to
 * @throws {CommandError}
 */
export async function writeOutFile(file: string, cwd: string, isForced: boolean, report: Report): Promise<void> {
  // Loaded by those who draw only.
  const text = file.endsWith('.svg')
    ? (await import('./drawing/svg.ts')).svgOf(report)
    : (await import('./drawing/html.ts')).htmlOf(report)
  const path = resolve(cwd, file)
  try {
    if (isForced) await rm(path, { force: true })
    await writeFile(path, text, { flag: 'wx' })
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException
    throw code === 'EEXIST' ? alreadyThere(file) : new CommandError(`--out: ${file} cannot be written: ${code ?? name}`)
  }
}

function alreadyThere(file: string): CommandError {
  return new CommandError(`--out: ${file} is there already`, { hint: 'Give another name, or --force to replace it.' })
}
