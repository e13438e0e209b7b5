import type { Config } from '../../config/load-config.ts'
import { SECRETS, VARIABLES } from '../../config/variables.ts'
import type { Settings } from '../settings/settings.ts'
import type { Path } from '../settings/wrangler-file.ts'
import type { Finding } from './finding.ts'

/** What stands at a wrong place of Wrangler's file. */
export function fileMistakes(_config: Config, { file, root, sources }: Settings): readonly Finding[] {
  if (!file) return []
  const findings: Finding[] = []
  for (const filePath of misplaced(file.table(), root)) {
    const name = filePath.at(-1)
    findings.push({
      rule: 'misplaced-variable',
      message: `${name} stands outside of [${[...root, 'vars'].join('.')}]: the Worker does not get it`,
      hint:
        name === 'POLICIES'
          ? `It belongs below [${[...root, 'vars'].join('.')}]: in TOML, its tables begin with [[${[...root, 'vars', 'POLICIES'].join('.')}]].`
          : 'Move it there.',
      filePath,
    })
  }
  for (const name of SECRETS) {
    if (sources.get(name) !== 'wrangler' || name === 'UPSTASH_REDIS_REST_URL') continue
    findings.push({
      rule: 'secret-in-file',
      message: `${name} is a secret, and stands in a file that everybody with the repository can read`,
      hint: `Take it out, and set another one by \`wrangler secret put ${name}\`.`,
      variable: name,
    })
  }
  if (root.length > 0) {
    const own = file.table(...root, 'vars')
    const lost = VARIABLES.filter((name) => name in file.table('vars') && !(name in own))
    if (lost.length > 0) {
      findings.push({
        rule: 'not-inherited',
        message: `${lost.join(', ')} of [vars] ${lost.length === 1 ? 'does' : 'do'} not hold in this environment, which inherits no variables`,
        filePath: [...root, 'vars'],
      })
    }
  }
  return findings
}

/** Where variables stand that are in no table of variables. Other environments are looked at by themselves. */
function misplaced(table: object, root: Path, path: Path = []): readonly Path[] {
  return Object.entries(table).flatMap(([name, value]): readonly Path[] => {
    const at = [...path, Array.isArray(table) ? Number(name) : name]
    const isVars = name === 'vars' && (path.length === 0 || (path.length === 2 && path[0] === 'env'))
    const isOther = path.length === 1 && path[0] === 'env' && name !== root[1]
    // What `define` replaces in sources may have any name.
    if (isVars || isOther || name === 'define') return []
    if ((VARIABLES as readonly string[]).includes(name)) return [at]
    return typeof value === 'object' && value !== null ? misplaced(value, root, at) : []
  })
}
