import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Config } from '../../config/load-config.ts'
import { meantVariable, VARIABLES } from '../../config/variables.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'

/** Variables that change nothing, or everything. */
export function effectMistakes(
  { policies, leases, localShare, statistics }: Config,
  { variables, sources }: Settings,
): readonly Finding[] {
  const limiting = policies.filter(({ tiers }) => tiers.length > 0)
  const findings: Finding[] = []
  if (leases !== undefined && !limiting.some(({ algorithm, block }) => ALGORITHMS[algorithm].lease && !block)) {
    findings.push({
      rule: 'leases-without-effect',
      message: 'LEASES changes nothing: no policy has an algorithm whose permits can be taken in advance',
      hint: 'All but concurrency have, without block.',
      variable: 'LEASES',
    })
  }
  if (localShare !== 1 && !limiting.some(({ onStoreError }) => onStoreError === 'local')) {
    findings.push({
      rule: 'local-share-without-effect',
      message: 'LOCAL_SHARE changes nothing: no policy is "local" while Redis is away',
      variable: 'LOCAL_SHARE',
    })
  }
  if (statistics.label !== undefined && !statistics.isOn && statistics.logShare === 0) {
    findings.push({
      rule: 'label-without-effect',
      message: 'CALLER_LABEL changes nothing: STATISTICS is off, and LOG_LIMITED 0',
      variable: 'CALLER_LABEL',
    })
  }
  if (variables.MODE === 'shadow') {
    findings.push({
      rule: 'shadow',
      message: 'MODE is "shadow": nothing is ever refused',
      variable: 'MODE',
    })
  }
  return [...findings, ...[...sources.keys()].filter(isUnknown).map(unknownVariable)]
}

/** Whether it looks like a variable. One that is close to a name that we know is refused. */
function isUnknown(name: string): boolean {
  const isKnown = (VARIABLES as readonly string[]).includes(name) || meantVariable(name) !== undefined
  return !isKnown && /^[A-Z][A-Z\d_]*$/.test(name)
}

function unknownVariable(name: string): Finding {
  const meant = VARIABLES.find((variable) => variable.startsWith(name.slice(0, 4)))
  return {
    rule: 'unknown-variable',
    message: `${name} is no variable of Sluice, which ignores it`,
    ...(meant && { hint: `Did you mean ${meant}?` }),
    variable: name,
    isName: true,
  }
}
