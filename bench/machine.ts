import { cpus } from 'node:os'

/** The date and the machine, for the line above a table of figures. */
export function machine(): string {
  return `${new Date().toISOString().slice(0, 10)}, ${cpus().length} × ${cpus()[0]?.model.trim()}, Node ${process.version}`
}
