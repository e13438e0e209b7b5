/** Names the position of a setting, for messages. */
import type { RequestPolicy } from '../../core/model/policy.ts'
import { readDeployedTables } from '../../gateway/rules/rule-policies.ts'
import type { DevVars, Settings } from './settings.ts'
import { locateOffset, type Part, type Path, type Position } from './wrangler-file.ts'

/** A position in a file, the name of a file, or a text such as "X of the shell". */
export type Location = Position | string | undefined

/** Locates the value of a variable, by what sets it. @param path of a value below it */
export function locate(
  { file, devVars, root, sources }: Settings,
  variable: string,
  path: Path = [],
  part?: Part,
): Location {
  switch (sources.get(variable)) {
    case 'shell':
      return `${variable} of the shell`
    case '.dev.vars':
      return devVars && locateInDevVars(devVars, variable)
    case 'wrangler':
      return file?.locate([...root, 'vars', variable, ...path], part)
    case undefined:
      // Nothing sets the variable: this is the table that it belongs in.
      return file?.locate([...root, 'vars'], 'name')
  }
}

/** Locates a valid policy. @param key of its table; a policy without a table comes from RATE_LIMITS */
export function locatePolicy(settings: Settings, { name }: RequestPolicy, key = 'name'): Location {
  const index = readDeployedTables(settings.variables).findIndex((table) => table.name === name)
  return index < 0 ? locate(settings, 'RATE_LIMITS') : locate(settings, 'POLICIES', [index, key])
}

/** The last line that sets a variable counts. */
function locateInDevVars({ file, text }: DevVars, name: string): Position | undefined {
  const last = [...text.matchAll(new RegExp(`^[ \\t]*(?:export[ \\t]+)?${name}(?![\\w.-])`, 'gm'))].at(-1)
  return last && locateOffset(file, text, last.index + last[0].length - name.length)
}
