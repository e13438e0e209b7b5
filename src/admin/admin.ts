/** What operators talk to, below `/_sluice/`. Loaded only where there is a token for it. */
import * as v from 'valibot'
import type { AdminConfig, Config } from '../config/load-config.ts'
import type { Operate, OperatedGateway } from '../gateway/app.ts'
import { type Problem, problemResponse } from '../http/problem.ts'
import { createDigest } from '../request/identity/digest.ts'
import { eventStream } from './event-stream.ts'
import { Gate, isOwn, notOwn } from './gate.ts'
import { openApiDocument } from './open-api.ts'
import type { Operated, Operation } from './operation.ts'
import { OPERATIONS } from './operations.ts'
import { problemOf } from './problem-of.ts'
import { readInput } from './read-input.ts'
import { readJson } from './read-json.ts'

const ROOT = '/_sluice'
const API = `${ROOT}/admin`

export interface AdminOptions extends Pick<Operated, 'env' | 'counters'> {
  readonly admin: AdminConfig
  readonly config: Config
}

/** Makes what answers operators. */
export function createAdmin(options: AdminOptions, gateway: OperatedGateway): Operate {
  const { admin, config, env, counters } = options
  const { token, host } = admin
  const { store, engine, health, governed, readHealth, now, log } = gateway
  const { ipv6Prefix, identitySecret } = config
  const gate = new Gate({ token, ipv6Prefix, digest: createDigest(identitySecret), now, log })
  const operated: Operated = { config, env, store, engine, upstream: health, governed, readHealth, counters, now }
  let document: string | undefined

  return async function operate(request, target) {
    if (host !== undefined && target.host !== host) return undefined
    const { canonical } = target.path
    if (canonical !== API && !canonical.startsWith(`${API}/`)) {
      return serveDashboard(canonical.slice(ROOT.length + 1), request, gate)
    }
    const refused = gate.refuse(request)
    if (refused) return refused
    const path = canonical.slice(API.length)
    if (path === '/openapi.json' && request.method === 'GET') {
      document ??= `${JSON.stringify(openApiDocument(OPERATIONS), undefined, 2)}\n`
      return new Response(document, { headers: { 'Content-Type': 'application/json', ...HEADERS } })
    }
    const found = OPERATIONS.filter((operation) => operation.path === path)
    if (found.length === 0) return problemResponse(NO_OPERATION)
    const operation = found.find(({ method }) => method === request.method)
    if (!operation) return problemResponse(notAllowed(found))
    return answer(operation, request, operated)
  }
}

const HEADERS = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }

async function answer(operation: Operation, request: Request, operated: Operated): Promise<Response> {
  const { body, query, everyMs } = operation
  try {
    const parameters = Object.fromEntries(new URL(request.url).searchParams)
    const asked = {
      query: query ? readInput(query, parameters) : undefined,
      body: body ? readInput(body, await readJson(request)) : undefined,
    }
    if (everyMs !== undefined) return events(() => operation.run(operated, asked), everyMs)
    return Response.json(await operation.run(operated, asked), { headers: HEADERS })
  } catch (error) {
    return problemResponse(problemOf(error))
  }
}

function events(run: () => Promise<unknown>, everyMs: number): Response {
  const read = () =>
    run().then(
      (data) => ({ isProblem: false, data }),
      (error) => ({ isProblem: true, data: problemOf(error) }),
    )
  return new Response(eventStream(read, everyMs), { headers: { 'Content-Type': 'text/event-stream', ...HEADERS } })
}

/** @param name below `/_sluice/` */
async function serveDashboard(name: string, request: Request, gate: Gate): Promise<Response | undefined> {
  if (request.method === 'POST' && (name === 'login' || name === 'logout')) {
    if (!isOwn(request)) return notOwn()
    if (name === 'logout') return new Response(null, { status: 204, headers: { 'Set-Cookie': gate.sessions.end } })
    return logIn(request, gate)
  }
  const { serveFile } = await import('./dashboard/serve.ts')
  return serveFile(name, request)
}

const login = v.strictObject({ token: v.string() })

async function logIn(request: Request, gate: Gate): Promise<Response> {
  try {
    const { token } = readInput(login, await readJson(request)) as v.InferOutput<typeof login>
    const refused = gate.refuseToken(request, token)
    return refused ?? new Response(null, { status: 204, headers: { 'Set-Cookie': gate.sessions.begin(), ...HEADERS } })
  } catch (error) {
    return problemResponse(problemOf(error))
  }
}

const NO_OPERATION: Problem = { status: 404, title: 'Not Found', detail: 'There is no such operation.' }

function notAllowed(found: readonly Operation[]): Problem {
  const allowed = found.map(({ method }) => method).join(', ')
  return {
    status: 405,
    title: 'Method Not Allowed',
    detail: `This is asked with ${allowed}.`,
    headers: { Allow: allowed },
  }
}
