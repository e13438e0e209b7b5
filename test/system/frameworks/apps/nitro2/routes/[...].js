/** Nitro 2 and Nuxt import the functions of h3 by themselves. */
import { answerOnNode } from '../../servers/answer-on-node.js'

export default eventHandler(({ node: { req, res } }) => answerOnNode(req, res))
