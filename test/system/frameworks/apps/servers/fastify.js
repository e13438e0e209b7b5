import fastify from 'fastify'
import { sluice } from 'sluice/node'
import { options } from '../options.js'
import { answerOnNode, port } from './answer-on-node.js'

const app = fastify()
app.addHook('onRequest', sluice(options))
for (const path of ['/', '/slow', '/end', '/address']) {
  app.get(path, (request, reply) => {
    reply.hijack()
    answerOnNode(request.raw, reply.raw)
  })
}
app.listen({ port, host: '127.0.0.1' })
