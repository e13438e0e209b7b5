import 'reflect-metadata'
import { Controller, Get, Module, Req, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { sluice } from 'sluice/node'
import { options } from '../options.js'
import { answerOnNode, port } from './answer-on-node.js'

class AppController {
  get(req, res) {
    return answerOnNode(req, res)
  }
}
// What decorators do, without a compiler for them.
Controller()(AppController)
Req()(AppController.prototype, 'get', 0)
Res()(AppController.prototype, 'get', 1)
const get = Object.getOwnPropertyDescriptor(AppController.prototype, 'get')
Get(['/', '/slow', '/end', '/address'])(AppController.prototype, 'get', get)

class AppModule {}
Module({ controllers: [AppController] })(AppModule)

async function main() {
  const app = await NestFactory.create(AppModule, { logger: false })
  app.use(sluice(options))
  await app.listen(port, '127.0.0.1')
}
main()
