import Koa from 'koa'
import { sluice } from 'sluice/node'
import { options } from '../options.js'
import { answerOnNode, port } from './answer-on-node.js'

const app = new Koa()
app.use(sluice(options))
app.use((ctx) => {
  ctx.respond = false
  ctx.status = 200
  return answerOnNode(ctx.req, ctx.res)
})
app.listen(port, '127.0.0.1')
