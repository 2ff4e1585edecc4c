import numpy as np, warnings; warnings.simplefilter('ignore')
import visir; print(visir.__file__)
from visir.evaluation.label_differences import value_difference as v
rng=np.random.default_rng(5)
for name,f in {"1000/15 at .1":lambda s:(rng.random(s)<.1)*1., "graded":lambda s:(rng.random(s)<.1)*rng.beta(2,2,s)}.items():
    wrong=dis=0
    for _ in range(300):
        a,b=f(1000),f(15)
        *_,lo,hi,p=v(a,np.arange(1000),b,1000+np.arange(15))
        wrong+=p<.05; dis+=(p<.05)!=(lo>0 or hi<0)
    print(name,100*wrong/300,100*dis/300)
