/** Writes one line. The fields must hold nothing secret and no raw identity. */
export type Log = (level: 'info' | 'warn' | 'error', fields: Readonly<Record<string, unknown>>) => void

/** One JSON object a line, which Workers Logs indexes by field. */
export const consoleLog: Log = (level, fields) => console[level](JSON.stringify(fields))
