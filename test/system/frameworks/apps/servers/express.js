import express from 'express'
import { sluice } from 'sluice/node'
import { options } from '../options.js'
import { answerOnNode, port } from './answer-on-node.js'

const app = express()
app.use(sluice(options))
app.get(['/', '/slow', '/end', '/address'], answerOnNode)
app.listen(port, '127.0.0.1')
