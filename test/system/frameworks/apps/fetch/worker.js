import { Redis } from '@upstash/redis/cloudflare'
import { redisStore, UPSTASH_OPTIONS } from 'sluice'
import { limit } from 'sluice/fetch'
import { answer } from '../answer.js'
import { options } from '../options.js'

let limited

export default {
  fetch(request, env, context) {
    limited ??= limit(answer, {
      ...options,
      keyPrefix: env.KEY_PREFIX,
      store: redisStore(new Redis({ url: env.URL, token: env.TOKEN, ...UPSTASH_OPTIONS }), { timeoutMs: 60_000 }),
    })
    return limited(request, env, context)
  },
}
