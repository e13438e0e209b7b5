import type { Config } from '../../config/load-config.ts'
import { ALGORITHMS } from '../../limit/algorithm-table.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'

/** Variables that change nothing, or everything. */
export function effectMistakes(
  { policies, leases, localShare, statistics }: Config,
  { variables }: Settings,
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
  return findings
}
