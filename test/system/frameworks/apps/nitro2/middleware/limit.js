/** Nitro 2 and Nuxt import the functions of h3 by themselves. */
import { sluice } from 'sluice/node'
import { options } from '../../options.js'

export default fromNodeMiddleware(sluice(options))
