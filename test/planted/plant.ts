/** Plants a fault into a copy of the project. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault } from './faults.ts'

/**
 * @param afterWrite makes what is generated of the file
 * @returns removes the fault
 * @throws Error unless there is one place to plant it in
 */
export function plant(copy: string, { file, find, replace }: Fault, afterWrite: () => void = () => {}): () => void {
  const path = join(copy, file)
  const text = readFileSync(path, 'utf8')
  const places = text.split(find).length - 1
  if (places !== 1) throw new Error(`${file}: expected one place to plant in, found ${places}: ${find}`)
  const write = (content: string) => {
    writeFileSync(path, content)
    afterWrite()
  }
  write(text.replace(find, () => replace))
  return () => write(text)
}
