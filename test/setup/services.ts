import type { TestProject } from 'vitest/node'
import { startRedisServer } from '../../tools/redis-server.ts'
import { startRestFront } from '../../tools/rest-front.ts'
import { PLANTED } from './secret-watch.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    redisPort: number
    redisRestUrl: string
    redisRestToken: string
    /** A front that hands scripts on as they are, as a proxy before plain Redis does. */
    plainRestUrl: string
  }
}

/** A real Redis and two REST fronts for a project's tests. A machine that cannot have Redis fails here, loudly. */
export default async function services({ provide }: TestProject): Promise<() => Promise<void>> {
  const token = `${PLANTED}-rest-token`
  const redis = await startRedisServer()
  const front = await startRestFront({ redisPort: redis.port, token })
  const plain = await startRestFront({ redisPort: redis.port, token, stripShebang: false })
  provide('redisPort', redis.port)
  provide('redisRestUrl', front.url)
  provide('redisRestToken', token)
  provide('plainRestUrl', plain.url)
  return async () => {
    await Promise.all([front.stop(), plain.stop()])
    await redis.stop()
  }
}
