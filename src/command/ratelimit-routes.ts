/** Routes of the reference server over HTTP, which charts and scripts call: `/healthcheck`, and `/json`, which answers as gRPC does. */
import * as v from 'valibot'
import { createTokenCheck } from '../gateway/api/auth.ts'
import { OperationError } from '../gateway/api/operation.ts'
import { readInput, readJson } from '../gateway/api/read-input.ts'
import { createGuard, HEADERS } from '../gateway/api/route.ts'
import { createProblemResponse } from '../http/response/problem.ts'
import { RequestError } from '../ratelimit-service/match-descriptors.ts'
import { MAX_UINT32, type RateLimitResponse, type RateLimitUnit, UNITS } from '../ratelimit-service/messages.ts'
import type { RateLimitServer } from '../ratelimit-service/server.ts'

type RateLimitRoute = (request: Request) => Promise<Response | undefined>

const count = v.pipe(
  // In JSON, 64 bits are a text.
  v.union([v.number(), v.pipe(v.string(), v.digits(), v.transform(Number))], 'an integer'),
  v.integer(),
  v.minValue(0),
)
const uint32 = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_UINT32))
const units = Object.keys(UNITS) as RateLimitUnit[]

const ENTRY = v.strictObject({ key: v.optional(v.string(), ''), value: v.optional(v.string(), '') })
const LIMIT = v.strictObject({ requestsPerUnit: v.optional(uint32, 0), unit: v.picklist(units) })
const REQUEST = v.strictObject({
  domain: v.optional(v.string(), ''),
  descriptors: v.optional(
    v.array(
      v.strictObject({
        entries: v.optional(v.array(ENTRY), []),
        limit: v.nullish(LIMIT, null),
        hitsAddend: v.nullish(
          v.pipe(
            count,
            v.transform((value) => ({ value })),
          ),
          null,
        ),
        isNegativeHits: v.optional(v.boolean(), false),
      }),
    ),
    [],
  ),
  hitsAddend: v.optional(uint32, 0),
})

/** @returns routes by path @param token of those who ask at `/json` */
export function createRateLimitRoutes(server: RateLimitServer, token: string): ReadonlyMap<string, RateLimitRoute> {
  const guard = createGuard(createTokenCheck(token), 'DECIDE_TOKEN', 'sluice-decide')
  const answerJson = guard(['POST'], async function answerJson(request: Request) {
    try {
      const decided = await server.decide(readInput(REQUEST, withCamelCase(await readJson(request))))
      return Response.json(toJson(decided), { status: decided.overallCode === 'OK' ? 200 : 429, headers: HEADERS })
    } catch (error) {
      if (error instanceof OperationError) return createProblemResponse(error.problem)
      if (!(error instanceof RequestError)) throw error
      return createProblemResponse(new OperationError('invalid_input', 400, error.message).problem)
    }
  })
  const answerHealth: RateLimitRoute = async () => {
    const isServing = !server.isDraining
    return new Response(isServing ? 'OK' : 'draining', { status: isServing ? 200 : 500, headers: HEADERS })
  }
  return new Map([
    ['/json', answerJson],
    ['/healthcheck', answerHealth],
  ])
}

/** Names of fields may be those of the .proto files. */
function withCamelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withCamelCase)
  if (typeof value !== 'object' || value === null) return value
  const toCamelCase = (name: string) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [toCamelCase(name), withCamelCase(field)]))
}

/** Writes a response in the JSON form of protocol buffers. */
function toJson({ statuses, ...response }: RateLimitResponse): object {
  const shown = statuses.map(({ durationUntilReset: wait, ...status }) => {
    return { ...status, ...(wait && { durationUntilReset: `${wait.seconds + wait.nanos / 1e9}s` }) }
  })
  return { ...response, statuses: shown }
}
