/** What compiles, and what does not: the compiler itself is the test. */
import { createLimiter, fixedWindow, type LimiterOptions, quota, slidingWindow, sortedSet, tokenBucket } from 'sluice'
import { limit } from 'sluice/fetch'
import { type SluiceOptions, sluice } from 'sluice/node'
import { outbound, throttle } from 'sluice/outbound'

declare const text: string
declare const maybe: string | undefined
declare const max: number
declare const isPro: boolean
declare const plan: '10/1s' | '100/1s'
const handler = (_request: Request, _context: { readonly user: string }) => new Response()

export function compileAllThatIsValid() {
  createLimiter({ limits: '10/1s, 120/1m,5/1h , 007/53w' })
  createLimiter({ limits: '\n  1/1ms,\n\t2/1d\n' })
  createLimiter({ limits: isPro ? '100/1s' : '10/1s' })
  createLimiter({ limits: plan })
  createLimiter({ limits: text })
  createLimiter({ limits: maybe })
  createLimiter({ limits: `${max}/1m, ${text}` })
  createLimiter({ policies: [{ name: 'a', ...slidingWindow('1/1s') }] })
  createLimiter({ policies: [{ name: 'a', algorithm: 'quota', limits: '5/month' }] })
  const options: LimiterOptions = { limits: '1/1s' }
  createLimiter(options)
  createLimiter({ limits: '1/1s', plans: { pro: '20/1s', [text]: text } })
  sluice({ limits: '10/1s', plans: { pro: '050/1s' }, plan: () => 'pro' })
  const settings = { limits: '1/1s', by: 'ip' }
  sluice(settings)
  quota('1000/day, 10000/month, 5/1d', { timeZone: 'Europe/Berlin' })
  quota(`${max}/week`)
  for (const define of [slidingWindow, sortedSet, tokenBucket, fixedWindow]) define(text)
  sluice({ limits: '1/1s', by: 'token + route', skip: (request) => request.method === 'PUT' })
  sluice({ limits: '1/1s', by: 'header:x-tenant+claim:/account/id' })
  sluice({ limits: '1/1s', by: text })
  sluice({ limits: '1/1s', by: `header:${text}+ip` })
  sluice({ policies: [{ name: 'a', limits: { free: '60/1m', pro: 5 }, by: 'ip', match: 'GET /' }] })
  const shared: SluiceOptions = { limits: text, by: 'global' }
  sluice(shared)
  outbound(fetch)
  outbound(fetch, { limits: '300/1m, 5/1s', resource: ({ url }) => url.pathname })
  throttle((name: string) => name, { limits: `${max}/1m`, identity: (name) => name })
  throttle(async () => {}, { concurrency: 2 })
  limit(handler, { limits: '1/1s', by: 'global', identify: undefined, cost: (_, { user }) => user.length })
}

export function refuseWhatIsWrong() {
  // @ts-expect-error: no such unit
  createLimiter({ limits: '10/1sec' })
  // @ts-expect-error: the second one
  createLimiter({ limits: '10/1s, 100' })
  // @ts-expect-error: only quotas are by calendar
  createLimiter({ limits: '10/month' })
  // @ts-expect-error: no digits but digits
  createLimiter({ limits: '1_000/1s' })
  // @ts-expect-error: spaces within
  createLimiter({ limits: '10 / 1s' })
  // @ts-expect-error: at least one
  createLimiter({ limits: '0/1s' })
  // @ts-expect-error: a window of no length
  sluice({ limits: '10/00s' })
  // @ts-expect-error: no such unit
  createLimiter({ limits: '10/1s', plans: { pro: '20/1s', free: '5/1sec' } })
  // @ts-expect-error: no such unit
  sluice({ limits: '10/1s', plans: { pro: '5/1sec' }, plan: () => 'pro' })
  // @ts-expect-error: nothing
  createLimiter({ limits: '' })
  // @ts-expect-error: one of two
  createLimiter({ limits: isPro ? '100/1s' : '10/1x' })
  // @ts-expect-error: no such unit
  slidingWindow('10/1min')
  // @ts-expect-error: no such unit
  sortedSet('10/1min')
  // @ts-expect-error: no such unit
  tokenBucket('10/1min', { burst: 5 })
  // @ts-expect-error: no such unit
  fixedWindow('10/1min')
  // @ts-expect-error: no such window
  quota('10/days')
  // @ts-expect-error: no such unit
  sluice({ limits: '10/1sec' })
  // @ts-expect-error: no such identity
  sluice({ limits: '10/1s', by: 'tokn' })
  // @ts-expect-error: the second one
  sluice({ limits: '10/1s', by: 'ip+tokn' })
  // @ts-expect-error: a header without a name
  sluice({ limits: '10/1s', by: 'header' })
  // @ts-expect-error: no such unit
  outbound(fetch, { limits: '300/1min' })
  // @ts-expect-error: no such unit
  throttle(async () => {}, { limits: '300/1min' })
  // @ts-expect-error: no such unit
  limit(handler, { limits: '10/1sec' })
  // @ts-expect-error: no such identity
  limit(handler, { limits: '10/1s', by: 'tokn' })
}
