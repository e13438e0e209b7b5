import type { Config } from '../../config/load-config.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'
import { lacksKeys } from './known-elsewhere.ts'

/** Tokens that nothing verifies, or that were made for anybody. */
export function claimMistakes({ jwt }: Config, { variables, file, root }: Settings): readonly Finding[] {
  if (!jwt) return []
  const findings: Finding[] = []
  const required = file?.get(...root, 'secrets', 'required')
  if (lacksKeys(variables) && !(Array.isArray(required) && required.includes('JWT_SECRET'))) {
    findings.push({
      rule: 'keys-elsewhere',
      message: 'policies ask for claims: the Worker starts only if the secret JWT_SECRET is set',
      hint: 'Set it by `wrangler secret put JWT_SECRET` and add it to [secrets] required, or set JWKS_URL.',
      variable: 'POLICIES',
    })
  }
  if (jwt.audience === undefined) {
    findings.push({
      rule: 'any-audience',
      message: 'JWT_AUDIENCE is not set: tokens that were made for other APIs count as well',
      variable: jwt.keys.kind === 'jwks' ? 'JWKS_URL' : 'POLICIES',
    })
  }
  return findings
}
