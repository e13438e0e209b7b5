import Koa from 'koa'
import { sluice } from 'sluice/node'
import { options } from '../options.js'
import { answerOnNode, port } from './answer-on-node.js'

const app = new Koa()
const limit = sluice(options)
app.use(async (ctx, next) => {
  ctx.respond = false // until it is admitted
  await new Promise((resolve, reject) => {
    ctx.res.once('close', resolve)
    limit(ctx.req, ctx.res, (error) => {
      ctx.respond = true
      if (error) reject(error)
      else resolve(next())
    })
  })
})
app.use((ctx) => {
  ctx.respond = false
  ctx.status = 200
  return answerOnNode(ctx.req, ctx.res)
})
app.listen(port, '127.0.0.1')
