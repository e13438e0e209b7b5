import { createServer } from 'node:http'
import { sluice } from 'sluice/node'
import { options } from '../options.js'
import { answerOnNode, port } from './answer-on-node.js'

const limit = sluice(options)
createServer((req, res) => limit(req, res, () => answerOnNode(req, res))).listen(port, '127.0.0.1')
