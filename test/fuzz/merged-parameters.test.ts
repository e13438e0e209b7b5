/** A value in several places: whichever of them some API takes, it is counted as that caller, or as nobody. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { createJudge, receive } from '../support/judge-readings.ts'
import { READERS, readGiven, send, VALUE } from '../support/merged-places.ts'
import { fuzz } from './fuzz.ts'

const value = fc.option(fc.constantFrom(VALUE, VALUE, 'junk'), { nil: undefined })
const body = fc.constantFrom('form', 'json', 'multipart')
const request = fc.record({ query: value, cookie: value, route: value, inBody: value, body, isLong: fc.boolean() })

const PLACES = ['query', 'form', 'json', 'cookie'] as const
const judges = Promise.all(PLACES.map(async (place) => [place, await createJudge(place, VALUE)] as const))

fuzz(
  'a caller that some API finds in any of several places is never another one, whichever of them a policy counts by',
  2_000,
  fc.asyncProperty(request, async (request) => {
    const given = readGiven(request)
    const finder = Object.entries(READERS).find(([, read]) => read(given) === VALUE)
    if (!finder) return
    const { route } = request
    const isReadable = request.inBody === undefined || (request.body !== 'multipart' && !request.isLong)
    const at = route === undefined ? undefined : { route: 'POST /:api_key/:my_sid', path: `/${route}/${route}` }
    for (const [place, judge] of await judges) {
      // A body that cannot be read leaves a cookie as it is.
      if (place === 'cookie' && given.cookie !== undefined && !isReadable) continue
      const { outcome } = await judge(receive(send(request)), at)
      expect(outcome, `by ${place}, ${finder[0]}, for ${JSON.stringify(request)}`).not.toBe('another caller')
    }
  }),
)

fuzz(
  'a caller that is blocked does not get in where the query, a cookie or a body that can be read says who it is',
  1_000,
  fc.asyncProperty(request, async (sent) => {
    const request = { ...sent, route: undefined }
    const given = readGiven(request)
    if (!Object.values(READERS).some((read) => read(given) === VALUE)) return
    const isReadable = request.inBody === undefined || (request.body !== 'multipart' && !request.isLong)
    for (const [place, judge] of await judges) {
      if (!isReadable && [given.query, given.cookie].every((value) => value !== VALUE)) continue
      const { isBlocked } = await judge(receive(send(request)))
      expect(isBlocked, `by ${place}, for ${JSON.stringify(request)}`).toBe(true)
    }
  }),
)
