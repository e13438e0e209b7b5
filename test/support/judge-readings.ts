import fc from 'fast-check'
import type { RequestPolicy } from '../../src/core/model/policy.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { readRules } from '../../src/gateway/rules/document.ts'
import { RuleIndex } from '../../src/gateway/rules/rule-index.ts'
import { createRuleTarget } from '../../src/gateway/rules/target.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { RequestChargeBuilder } from '../../src/http/request/charge-builder.ts'
import type { ClaimReader, JwtSettings } from '../../src/http/request/identity/claims.ts'
import { loadTokenVerifier } from '../../src/http/request/identity/jwt/verify-tokens.ts'
import type { ReceivedRequest } from '../../src/http/request/received-request.ts'
import { callContext } from './call-context.ts'
import {
  anySpelling,
  type Kind,
  listReaders,
  SOURCES,
  type Spelt,
  spellPlainly,
  toRequest,
} from './lenient-readings.ts'
import { signToken } from './tokens.ts'

const ADDRESS = '203.0.113.7'
export const JWT_SECRET = 'planted-secret of thirty-two characters'

/** What blocks can name, and what a digest alone holds for. */
const BLOCKED_BY_VALUE: ReadonlySet<Kind> = new Set(['token', 'claim', 'cookie', 'header', 'query'])
const BLOCKED_BY_DIGEST: ReadonlySet<Kind> = new Set(['token', 'claim', 'cookie', 'header', 'query', 'form', 'json'])

/** What becomes of requests in which one reader finds the caller. */
export interface Row {
  readonly kind: Kind
  readonly reader: string
  /** Spellings in which it finds the caller; the rest is none of its business. */
  found: number
  'the same caller': number
  'no identity': number
  'another caller': number
  /** While the caller is blocked: `undefined` where no block can name it. */
  'blocked: refused': number | undefined
  'blocked: let in': number | undefined
}

export interface Dodge {
  readonly kind: Kind
  readonly reader: string
  readonly spelling: string
  readonly outcome: string
}

export interface Judged {
  readonly rows: readonly Row[]
  readonly dodges: readonly Dodge[]
}

/** Of a session of Flask that is compressed: payload, time and signature. */
const FLASK_SESSION = '.eJyrVkosLcmIz8nPS1WyUkrMyy_JKEpVqgUAZIEIdg.aSJmZQ.cGxhbnRlZC1zZWNyZXQtc2lnbmE'

/** The callers that are to be found, as they are plainly sent. */
export async function listValues(kind: Kind): Promise<readonly string[]> {
  const opaque = 'planted-secret.k1~x'
  const token = await signToken({ sub: 'alice' }, { secret: JWT_SECRET })
  switch (kind) {
    case 'token':
      return [opaque, btoa('alice:planted-secret'), token]
    case 'claim':
      return [token]
    case 'cookie':
      return [opaque, FLASK_SESSION, token]
    default:
      return [opaque]
  }
}

/** Tries generated spellings of one kind of identity on its readers, and asks the gateway's own code who each of them is. */
export async function judgeReadings(
  kind: Kind,
  { seed, spellings }: { readonly seed: number; readonly spellings: number },
): Promise<Judged> {
  const readers = listReaders(kind)
  const isBlockable = BLOCKED_BY_VALUE.has(kind) || BLOCKED_BY_DIGEST.has(kind)
  const blocked = isBlockable ? 0 : undefined
  const rows = readers.map(
    ({ name }): Row => ({
      ...{ kind, reader: name, found: 0, 'the same caller': 0, 'no identity': 0, 'another caller': 0 },
      ...{ 'blocked: refused': blocked, 'blocked: let in': blocked },
    }),
  )
  const dodges: Dodge[] = []
  const values = await listValues(kind)
  for (const value of values) {
    const judge = await createJudge(kind, value)
    const numRuns = Math.ceil(spellings / values.length)
    for (const spelling of fc.sample(anySpelling(kind, value), { seed, numRuns })) {
      const received = receive(toRequest(kind, spelling))
      const text = textFor(kind, spelling, received)
      const finders = rows.filter((_, index) => readers[index]?.read(text)?.trim() === value)
      if (finders.length === 0) continue
      const { outcome, isBlocked } = await judge(received)
      const whileBlocked = isBlocked ? 'blocked: refused' : 'blocked: let in'
      for (const row of finders) {
        const { reader } = row
        row.found++
        row[outcome]++
        if (outcome === 'another caller') dodges.push({ kind, reader, spelling, outcome })
        if (row[whileBlocked] === undefined) continue
        row[whileBlocked]++
        if (!isBlocked) dodges.push({ kind, reader, spelling, outcome: whileBlocked })
      }
    }
  }
  return { rows, dodges }
}

interface Judgement {
  readonly outcome: 'the same caller' | 'no identity' | 'another caller'
  readonly isBlocked: boolean
}

/** The pattern that matched, and the path. */
interface Place {
  readonly route: string | undefined
  readonly path: string
}

/** Judges requests by a policy and blocks of a caller, who is first sent plainly. */
export async function createJudge(
  kind: Kind,
  value: string,
): Promise<(request: ReceivedRequest, at?: Place) => Promise<Judgement>> {
  const by = SOURCES[kind]
  const config = loadConfig({
    UPSTREAM_URL: 'https://api.example.com',
    ...(kind === 'claim' && { JWT_SECRET }),
    // Who has no value at all is not counted: no spelling of a value may look like that.
    POLICIES: [{ name: 'p', limits: '5/1h', by, anonymous: 'skip' }],
  })
  const readClaim = kind === 'claim' ? await verifier() : undefined
  const maker = new RequestChargeBuilder({ ...config, readClaim })
  const [policy] = config.policies as readonly [RequestPolicy]
  const options = { ...config, readClaim }
  const ask = (request: ReceivedRequest, { route, path }: Place = { route: undefined, path: '/' }) =>
    maker.build({ policy, route, isCertain: true }, request, path, 'default', callContext())
  const plain = receive(toRequest(kind, spellPlainly(kind, value)))
  const known = await ask(plain)
  if (known === 'skip' || 'outcome' in known) throw new Error(`${by}: the plain spelling says nobody`)
  const caller = known.digest
  const target = BLOCKED_BY_VALUE.has(kind)
    ? await createRuleTarget(by, plain, {
        ...options,
        readClaim: readClaim && ((path) => readClaim(path, `Bearer ${value}`, callContext())),
      })
    : undefined
  const blocks = (entry: object) => new RuleIndex(readRules({ blocks: [entry] }), options)
  const indexes = [
    ...(target ? [blocks(target)] : []),
    ...(BLOCKED_BY_DIGEST.has(kind) ? [blocks({ digest: caller })] : []),
  ]
  const nobody = createDigest(config.identitySecret)(['ip', ADDRESS])

  return async function judge(request, at) {
    const requested = await ask(request, at)
    const charge = requested === 'skip' || 'outcome' in requested ? undefined : requested
    const digest = charge?.digest
    const outcome = digest === caller ? 'the same caller' : digest === nobody ? 'no identity' : 'another caller'
    const isBlockedBy = async (rules: RuleIndex) => {
      const orders = await rules.match(request, 0, callContext())
      if (!orders || 'outcome' in orders) return orders !== undefined
      return charge !== undefined && 'outcome' in (await orders.apply([charge]))
    }
    // Whichever way it is blocked.
    const isBlocked = (await Promise.all(indexes.map(isBlockedBy))).every(Boolean)
    return { outcome, isBlocked }
  }
}

function verifier(): Promise<ClaimReader> {
  const settings: JwtSettings = { keys: { kind: 'secret', secret: JWT_SECRET }, issuer: undefined, audience: undefined }
  return loadTokenVerifier(settings, { now: Date.now, log() {}, fetch: () => Promise.reject(new Error('no')) })
}

/** As the runtime hands it over. */
export function receive({ query, headers, body }: Spelt): ReceivedRequest {
  const url = new URL(`https://gateway.example/?${query.replaceAll('#', '%23')}`).href
  const method = body === undefined ? 'GET' : 'POST'
  const request = new Request(url, { method, ...(body !== undefined && { body }) })
  return {
    ...{ method, url, body: request.body, clone: () => request.clone() },
    headers: new Headers({ 'CF-Connecting-IP': ADDRESS, ...headers }),
  }
}

/** As the API gets it. */
function textFor(kind: Kind, spelling: string, { headers, url }: ReceivedRequest): string {
  switch (kind) {
    case 'token':
    case 'claim':
      return headers.get('Authorization') ?? ''
    case 'cookie':
      return headers.get('Cookie') ?? ''
    case 'header':
      return headers.get('X-Api-Key') ?? ''
    case 'query':
      return new URL(url).search.slice(1)
    case 'form':
    case 'json':
      return spelling
  }
}
