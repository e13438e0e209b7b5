import { initTRPC, TRPCError } from '@trpc/server'
import { fetchRequestHandler } from '@trpc/server/adapters/fetch'
import { createLimiter } from 'sluice'

const limiter = createLimiter({ limits: '10/1h' })
const t = initTRPC.context().create()
const limited = t.procedure.use(async ({ ctx, next }) => {
  const { granted, retryAfterMs } = await limiter.take(`user:${ctx.userId}`)
  if (!granted) throw new TRPCError({ code: 'TOO_MANY_REQUESTS', message: `Try again in ${retryAfterMs} ms.` })
  return next()
})
const router = t.router({ hello: limited.query(() => 'hello'), end: t.procedure.query(() => 'ended') })
const createContext = ({ req }) => ({ userId: req.headers.get('Authorization') })
Bun.serve({
  hostname: '127.0.0.1',
  port: process.env.PORT,
  fetch: (req) => fetchRequestHandler({ endpoint: '', req, router, createContext }),
})
