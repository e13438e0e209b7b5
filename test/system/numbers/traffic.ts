import type { Agent } from 'node:http'
import type { Outcome } from '../../../src/gateway/statistics/outcomes.ts'
import { drawInteger, seededRandom } from '../../../tools/seeded-random.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import { send } from '../../support/http-client.ts'
import type { Run } from '../kit/scenario.ts'
import { sendInLanes } from '../kit/traffic.ts'
import { BLOCKED_ADDRESS } from './site.ts'

/** What a client has seen of one request. */
export interface Seen {
  readonly kind: Kind
  readonly outcome: Outcome
  readonly degraded: string | undefined
  readonly isUpstream5xx: boolean
  /** Limits that have refused it. */
  readonly violated: readonly string[]
  readonly token: string | undefined
}

/** Kinds of requests, the policies with limits that apply to each, and how many of a hundred there are. */
export const KINDS = {
  plain: { share: 13, policies: ['default'] },
  item: { share: 25, policies: ['default', 'items', 'trial'] },
  login: { share: 12, policies: ['default', 'login'] },
  account: { share: 8, policies: ['default', 'account'] },
  stranger: { share: 3, policies: ['default', 'account'] },
  costly: { share: 8, policies: ['default', 'costly'] },
  unpriced: { share: 3, policies: ['default', 'costly'] },
  bulk: { share: 8, policies: ['default', 'shared'] },
  closed: { share: 5, policies: ['default', 'closed'] },
  open: { share: 5, policies: ['default', 'open'] },
  failing: { share: 5, policies: ['default'] },
  unclear: { share: 2, policies: undefined },
  blocked: { share: 2, policies: undefined },
  long: { share: 1, policies: undefined },
  overload: { share: 0, policies: ['default'] },
} as const satisfies Record<string, { readonly share: number; readonly policies: readonly string[] | undefined }>
export type Kind = keyof typeof KINDS

const CALLERS = 200
const LANES = 24

/** Sends so many requests, of one kind or of all. @returns what became of each */
export function sendTraffic(
  gateways: readonly URL[],
  requests: number,
  run: Run,
  seedBy: number,
  only?: Kind,
): Promise<readonly Seen[]> {
  const random = seededRandom(run.seed + seedBy)
  return sendInLanes({ requests, lanes: LANES, run }, (_, agent) => {
    // A few callers send most of it.
    const caller = Math.floor(CALLERS * random() ** 4)
    const gateway = gateways[drawInteger(random, 0, gateways.length - 1)] as URL
    return sendOne(gateway, agent, only ?? drawKind(random), caller, random)
  })
}

function drawKind(random: () => number): Kind {
  let at = random() * 100
  for (const [kind, { share }] of Object.entries(KINDS)) {
    at -= share
    if (at < 0) return kind as Kind
  }
  return 'item'
}

interface Request {
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly isAnonymous?: boolean
  readonly address?: string
}

function drawRequest(kind: Kind, random: () => number): Request {
  switch (kind) {
    case 'item':
      return { path: `/items/${drawInteger(random, 1, 1_000)}?at=${drawInteger(random, 1, 1_000)}` }
    case 'login':
      return { method: 'POST', path: `/login/${drawInteger(random, 1, 50)}` }
    case 'stranger':
      return { path: '/account', isAnonymous: true }
    case 'costly':
      return { path: '/costly', headers: { 'X-Cost': String(drawInteger(random, 1, 9)) } }
    case 'unpriced':
      return { path: '/costly', headers: { 'X-Cost': 'much' } }
    case 'unclear':
      return { method: 'POST', path: '/login%2F1' }
    case 'blocked':
      return { path: '/items/1', address: BLOCKED_ADDRESS }
    case 'long':
      return { path: `/items/${'1'.repeat(9_000)}` }
    default:
      return { path: `/${kind}` }
  }
}

async function sendOne(gateway: URL, agent: Agent, kind: Kind, caller: number, random: () => number): Promise<Seen> {
  const { method = 'GET', path, headers, isAnonymous, address = `203.0.113.${caller}` } = drawRequest(kind, random)
  const token = isAnonymous ? undefined : `${PLANTED}-caller-${caller}`
  const answer = await send(gateway, {
    ...{ agent, method, path },
    headers: {
      'CF-Connecting-IP': address,
      'X-Account-Name': `Account ${caller} <b>`,
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...headers,
    },
  })
  const { status } = answer
  const isFromApi = answer.headers['x-from-api'] !== undefined
  return {
    kind,
    outcome: isFromApi ? 'admitted' : toOutcome(status, answer.body.toString()),
    degraded: answer.headers['sluice-degraded']?.toString(),
    isUpstream5xx: isFromApi && status >= 500,
    violated: status === 429 && !isFromApi ? JSON.parse(answer.body.toString())['violated-policies'] : [],
    token,
  }
}

function toOutcome(status: number, body: string): Outcome {
  switch (status) {
    case 429:
      return 'limited'
    case 401:
      return 'unidentified'
    case 404:
      return 'blocked'
    case 400:
    case 414:
      return 'bad_request'
    case 503:
      if (body.includes('is reserved')) return 'deprioritized'
      return body.includes('overloaded') ? 'shed' : 'unavailable'
    default:
      throw new Error(`an answer that was not expected: ${status} ${body}`)
  }
}
