import type { Host } from '../../src/gateway/compose/setting.ts'
import { createGateway } from '../../src/gateway/create-gateway.ts'
import { PLANTED } from '../setup/secret-watch.ts'

export const DECIDE_TOKEN = `${PLANTED}-decide-token-0123456789abcdef`

const ORIGIN = 'http://sluice.test'

export interface Decisions {
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Asks for a decision, with the token. */
  decide(body: unknown): Promise<{ readonly status: number; readonly body: Record<string, unknown> }>
  /** Asks as a proxy does, with the token. @param query with its question mark */
  authorize(question: Question, query?: string): Promise<Response>
}

export interface Question {
  readonly method?: string
  readonly uri?: string
  readonly host?: string
  readonly address?: string
  /** Fields of the client. */
  readonly headers?: Readonly<Record<string, string>>
}

/** All parts of a gateway in this process, whose upstream answers 200 to everything. */
export async function openDecisions(env: Readonly<Record<string, unknown>>, open?: Host['open']): Promise<Decisions> {
  const upstream = { fetch: async () => new Response('from the API') }
  const { app } = await createGateway({ DECIDE_TOKEN, STORE_TIMEOUT_MS: 30_000, ...env, UPSTREAM: upstream }, { open })
  const context = { waitUntil() {}, passThroughOnException() {}, props: {} }
  const fetch = async (path: string, init?: RequestInit) => app.fetch(new Request(ORIGIN + path, init), {}, context)
  return {
    fetch,
    async decide(body) {
      const response = await fetch('/_sluice/decide', {
        method: 'POST',
        headers: { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      })
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    },
    authorize({ method = 'GET', uri = '/', host = 'api.test', address = '192.0.2.1', headers = {} }, query = '') {
      return fetch(`/_sluice/authorize${query}`, {
        headers: {
          'Sluice-Token': DECIDE_TOKEN,
          'X-Forwarded-Method': method,
          'X-Forwarded-Uri': uri,
          'X-Forwarded-Host': host,
          'X-Forwarded-For': address,
          ...headers,
        },
      })
    },
  }
}
